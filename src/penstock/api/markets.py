"""Markets over HTTP: what an exchange lists, as any process last heard it."""

from litestar import Response, get
from litestar.params import FromPath

from penstock.api.parts import Given, json_answer
from penstock.api.problems import Refusal
from penstock.api.views import listing_view
from penstock.connectors.markets import stored_listing


@get("/markets/{exchange_id:str}")
async def shown(parts: Given, exchange_id: FromPath[str]) -> Response[bytes]:
    """Show an exchange's markets: tick and lot size, status, and lengths of candles."""
    listing = await stored_listing(parts.store, exchange_id)
    if listing is None:
        problem = f"It is not known what {exchange_id!r} lists: it was never asked."
        raise Refusal(404, f"{problem} Create a job markets_refresh for it.")
    return json_answer(listing_view(listing))


ROUTES = [shown]
