"""Route for an exchange's market listing, as last fetched by any process."""

from litestar import Response, get
from litestar.params import FromPath

from penstock.api.app_state import GivenState, json_answer
from penstock.api.problems import ProblemError
from penstock.api.views import listing_view
from penstock.connectors.markets import stored_listing


@get("/markets/{exchange_id:str}")
async def shown(app_state: GivenState, exchange_id: FromPath[str]) -> Response[bytes]:
    """Show an exchange's markets, with tick and lot sizes, status and candle lengths."""
    listing = await stored_listing(app_state.store, exchange_id)
    if listing is None:
        problem = f"The markets of {exchange_id!r} have not been fetched yet."
        raise ProblemError(404, f"{problem} Create a markets_refresh job for it.")
    return json_answer(listing_view(listing))


ROUTES = [shown]
