"""Routes for the documents that show a fleet: overview, processes, settings."""

from litestar import Response, get

from penstock.api.app_state import GivenState, json_answer


@get("/overview")
async def overview(app_state: GivenState) -> Response[bytes]:
    """Show each exchange with its light, the totals, the disk, the last backup and the alerts."""
    return json_answer(await app_state.monitor.overview(app_state.store))


@get("/processes")
async def processes(app_state: GivenState) -> Response[bytes]:
    """List all processes that ran lately, with their problems."""
    return json_answer(await app_state.monitor.processes(app_state.store))


@get("/storage")
async def storage(app_state: GivenState) -> Response[bytes]:
    """Show what collected data takes on disk, by dataset, and the backups."""
    return json_answer(await app_state.monitor.storage(app_state.store))


@get("/collected")
async def collected(app_state: GivenState) -> Response[bytes]:
    """List the markets of which data was collected."""
    return json_answer(await app_state.monitor.collected(app_state.store))


@get("/config")
async def config(app_state: GivenState) -> Response[bytes]:
    """List the settings of the server, with secrets masked."""
    return json_answer(app_state.monitor.config())


ROUTES = [overview, processes, storage, collected, config]
