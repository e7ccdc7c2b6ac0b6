from penstock.app.budget import open_budget as open_budget
from penstock.app.bus import subscribe as subscribe
from penstock.app.dataset import open as open
from penstock.errors import GapError as GapError
from penstock.errors.reading import GapWarning as GapWarning
from penstock.publish.subscriber import Delivery as Delivery
from penstock.publish.subscriber import Missing as Missing

__version__: str
