"""Shards of markets: each market is in exactly one, and adding markets does not move others."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import ConfigError
from penstock.market.market_shard import MOST_SHARDS, WHOLE, MarketShard

COUNTS = st.integers(1, MOST_SHARDS)
SHARDS = COUNTS.flatmap(
    lambda count: st.builds(MarketShard, st.integers(0, count - 1), st.just(count))
)


@given(st.text(st.characters(codec="utf-8")), COUNTS)
def test_a_market_is_in_exactly_one_shard(slug: str, count: int) -> None:
    owners = [number for number in range(count) if MarketShard(number, count).owns(slug)]

    assert len(owners) == 1
    assert WHOLE.owns(slug)


@given(
    COUNTS.flatmap(lambda count: st.builds(MarketShard, st.integers(0, count - 1), st.just(count)))
)
def test_its_text_is_parsed_again(shard: MarketShard) -> None:
    assert MarketShard.parse(str(shard)) == shard


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("3/3", "3 shards are numbered from 0 to 2: there is no 3"),
        ("0/0", "there are 1 to 100 shards, not 0"),
        ("0/101", "there are 1 to 100 shards, not 101"),
        ("a/b", "'a/b' is not NUMBER/COUNT, such as 0/3"),
        ("1", "is not NUMBER/COUNT"),
        ("-1/2", "is not NUMBER/COUNT"),
        ("1/2/3", "is not NUMBER/COUNT"),
        (" 1/2", "is not NUMBER/COUNT"),
        ("", "is not NUMBER/COUNT"),
        ("\u0661/\u0662", "is not NUMBER/COUNT"),
        ("1/99999999999999999999", "is not NUMBER/COUNT"),
    ],
)
def test_what_is_no_shard_is_refused_with_the_reason(text: str, words: str) -> None:
    with pytest.raises(ConfigError, match="--shard") as refused:
        MarketShard.parse(text)

    assert words in str(refused.value)
