"""Routes for product locks: which are held, and their release."""

from litestar import Response, get, post
from msgspec import Struct

from penstock.api.app_state import GivenState, json_answer
from penstock.api.problems import AnyRequest
from penstock.api.reading import Word, body_of
from penstock.api.views import lock_view
from penstock.jobs.product_locks import held_locks, release_lock


class LockOrder(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of a request that releases a lock."""

    key: Word


@get("/locks")
async def listed(app_state: GivenState) -> Response[bytes]:
    """List the locks that are held."""
    return json_answer([lock_view(lock) for lock in await held_locks(app_state.store)])


@post("/locks/release")
async def released(request: AnyRequest, app_state: GivenState) -> Response[bytes]:
    """Free a lock, whoever holds it, and return it as it was; its holder's run stops."""
    order = await body_of(request, LockOrder)
    return json_answer(lock_view(await release_lock(app_state.store, order.key)))


ROUTES = [listed, released]
