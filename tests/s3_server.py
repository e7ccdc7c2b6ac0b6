"""An object store that speaks S3's protocol: ``python -m tests.s3_server PORT CONDITIONAL``.

CONDITIONAL is 0 for a store that ignores ``If-None-Match``, and so overwrites objects.
"""

import sys
from collections.abc import Callable, Iterable
from threading import Lock
from typing import Any

from moto.moto_server.werkzeug_app import create_backend_app
from werkzeug.serving import WSGIRequestHandler, run_simple


class Handler(WSGIRequestHandler):
    """Keeps connections open and says nothing, which takes half of the time."""

    protocol_version = "HTTP/1.1"

    def log_request(self, code: object = "-", size: object = "-") -> None: ...


def main(port: int, conditional: bool) -> None:
    application = create_backend_app("s3")
    one_at_a_time = Lock()

    def serve(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        if not conditional:
            environ.pop("HTTP_IF_NONE_MATCH", None)
        # moto looks whether an object exists and then stores it: two threads may both find none.
        with one_at_a_time:
            answer: Iterable[bytes] = application(environ, start)
        return answer

    run_simple("127.0.0.1", port, serve, threaded=True, request_handler=Handler)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2] == "1")
