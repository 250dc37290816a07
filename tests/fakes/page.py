"""A page on a web server of its own, over plain HTTP on loopback: whatever is asked for, it is this page."""

import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager

FETCH = """tool = "http_fetch"
mode = "ask"
max_taint = "private"
result_class = "private"
untrusted = true
hosts = ["127.0.0.1"]
loopback = true
"""
"""A grant by which it is fetched once the owner has said so."""


@contextmanager
def serve_page(html: str) -> Iterator[str]:
    """Serve it; the URL. It listens in the network of the thread that enters."""
    body = html.encode()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Nothing."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/news"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
