"""The registry offers exchanges, and nothing else that lies beside them."""

import pytest

from penstock.errors import UnknownExchange
from penstock.simulator import registry


@pytest.mark.parametrize("name", registry.names())
def test_every_name_offered_is_an_exchange_with_markets(name: str) -> None:
    assert registry.catalogue(name).all()


@pytest.mark.parametrize("name", registry.SHARED)
def test_a_folder_that_exchanges_share_is_not_an_exchange(name: str) -> None:
    with pytest.raises(UnknownExchange, match=name):
        registry.catalogue(name)
