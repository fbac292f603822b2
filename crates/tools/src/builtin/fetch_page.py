"""Fetches the page of its argument: one line of JSON about it, then its content."""

import json
import sys
import urllib.error
import urllib.request

MAX_BYTES = 4 << 20

try:
    request = urllib.request.Request(sys.argv[1], headers={"User-Agent": "cellblock", "Accept": "text/html, text/*, */*"})
    try:
        answer = urllib.request.urlopen(request, timeout=45)
    except urllib.error.HTTPError as error:
        answer = error
    body = answer.read(MAX_BYTES + 1)
except Exception as error:
    sys.exit(f"{type(error).__name__}: {error}")
head = {
    "status": answer.status,
    "url": answer.url,
    "kind": answer.headers.get_content_type(),
    "charset": answer.headers.get_content_charset(),
    "is_cut": len(body) > MAX_BYTES,
}
sys.stdout.buffer.write(json.dumps(head).encode() + b"\n" + body[:MAX_BYTES])
