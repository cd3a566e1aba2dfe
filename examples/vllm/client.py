"""Ask each server for a completion: python client.py HOST:PORT,…"""

import json
import sys
import urllib.request

for server in sys.argv[1].split(","):
    with urllib.request.urlopen(f"http://{server}/v1/models", timeout=60) as answer:
        model = json.load(answer)["data"][0]["id"]
    body = json.dumps({"model": model, "prompt": "Ranks meet at", "max_tokens": 8}).encode()
    request = urllib.request.Request(f"http://{server}/v1/completions", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=300) as answer:
        print(f"{server} {model}: {json.load(answer)['choices'][0]['text']!r}", flush=True)
