"""Upbit's names of assets, in Korean and in English."""

_NAMES = {
    "BTC": ("비트코인", "Bitcoin"),
    "ETH": ("이더리움", "Ethereum"),
    "XRP": ("리플", "XRP"),
    "SOL": ("솔라나", "Solana"),
    "DOGE": ("도지코인", "Dogecoin"),
    "ADA": ("에이다", "Cardano"),
    "LINK": ("체인링크", "Chainlink"),
    "SHIB": ("시바이누", "Shiba Inu"),
    "USDT": ("테더", "Tether"),
    "LTC": ("라이트코인", "Litecoin"),
}


def names_of(base: str) -> tuple[str, str]:
    """The Korean and the English name; the code if there is none."""
    return _NAMES.get(base, (base, base))
