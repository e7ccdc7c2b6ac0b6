"""Settings as the API shows them."""

import msgspec

from penstock.config import Api, Loaded, Secret, Settings, State
from penstock.monitor.config_view import config_of


def test_secrets_and_passwords_are_masked_and_said_to_be() -> None:
    settings = Settings(
        api=Api(token=Secret("hunter2hunter2")),
        state=State(url="postgresql://me:swordfish@db/penstock"),
    )
    loaded = Loaded(settings, {"state.url": "environment PENSTOCK_STATE_URL"})
    config = config_of(loaded)
    text = msgspec.json.encode(config)
    assert b"hunter2" not in text
    assert b"swordfish" not in text

    items = {each.name: each for each in config.items}
    assert [each.name for each in config.items] == [name for name, _, _ in loaded.rows()]
    assert (items["api.token"].masked, items["api.token"].value) == (True, "***")
    assert (items["state.url"].masked, items["api.read_token"].masked) == (True, False)
    assert items["state.url"].origin == "environment PENSTOCK_STATE_URL"
    assert items["api.port"].origin == "default"
    assert [each.name for each in config.items if not each.doc] == []
