"""How daemons share symbols: every symbol by one of them, and as few as possible move."""

from itertools import zip_longest

from hypothesis import given
from hypothesis import strategies as st

from penstock.market.symbol import Symbol
from penstock.tickers import TickerSymbol
from penstock.tickers.partition import Member, owner_of, share_of

EXCHANGES = ("binance", "kraken", "coinbase")
symbols = st.lists(
    st.builds(
        TickerSymbol,
        st.sampled_from(EXCHANGES),
        st.builds(Symbol, st.sampled_from("ABCDEFGHIJ"), st.sampled_from(("USD", "USDT"))),
    ),
    unique=True,
    max_size=60,
)
ids = st.lists(st.text("abcdef", min_size=1, max_size=4), unique=True, min_size=1, max_size=6)


@given(symbols, ids)
def test_every_symbol_is_collected_by_exactly_one_daemon(
    wanted: list[TickerSymbol], names: list[str]
) -> None:
    members = [Member(name) for name in names]

    shares = [share_of(name, wanted, members) for name in names]

    assert sorted(symbol.key for share in shares for symbol in share) == sorted(
        symbol.key for symbol in wanted
    )


@given(symbols, ids, st.randoms(use_true_random=False))
def test_the_order_of_the_members_does_not_matter(
    wanted: list[TickerSymbol], names: list[str], random: object
) -> None:
    members = [Member(name) for name in names]
    shuffled = list(members)
    random.shuffle(shuffled)  # type: ignore[attr-defined]

    assert [owner_of(each, members) for each in wanted] == [
        owner_of(each, shuffled) for each in wanted
    ]


@given(symbols, ids)
def test_only_the_symbols_of_a_daemon_that_goes_move(
    wanted: list[TickerSymbol], names: list[str]
) -> None:
    gone, *rest = members = [Member(name) for name in names]
    for symbol in wanted:
        before, after = owner_of(symbol, members), owner_of(symbol, rest)
        assert before in (after, gone.id), "and the other way, when it comes back"


@given(symbols, ids, st.lists(st.sets(st.sampled_from(EXCHANGES), min_size=1), max_size=6))
def test_a_symbol_is_collected_by_a_daemon_that_serves_its_exchange(
    wanted: list[TickerSymbol], names: list[str], served: list[set[str]]
) -> None:
    members = [
        Member(name, None if limit is None else tuple(sorted(limit)))
        for name, limit in zip_longest(names, served[: len(names)])
    ]
    for symbol in wanted:
        able = {each.id for each in members if each.serves(symbol.exchange)}
        owner = owner_of(symbol, members)
        assert owner in able if able else owner is None


def test_the_shares_are_about_equal() -> None:
    wanted = [TickerSymbol("binance", Symbol(f"A{number}", "USDT")) for number in range(300)]
    members = [Member(f"host-{number}") for number in range(3)]

    sizes = [len(share_of(member.id, wanted, members)) for member in members]

    assert sum(sizes) == 300
    assert min(sizes) > 60
