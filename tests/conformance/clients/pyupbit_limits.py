"""pyupbit against an exchange that refuses: what it reads of what is left, and of a refusal."""

import json
import sys

import pyupbit
import requests

HOST = "https://api.upbit.com"

_get = requests.get
requests.get = lambda url, **more: _get(url.replace(HOST, sys.argv[1]), **more)

outcomes = []
for _ in range(5):
    answer, left = pyupbit.get_current_price("KRW-BTC", limit_info=True, verbose=True)
    # It hands on what was answered, an error too.
    outcomes.append([answer if isinstance(answer, dict) else "served", left])
try:
    pyupbit.get_current_price("KRW-BTC")
    banned = []
except pyupbit.errors.UpbitError as error:
    banned = [error.code, error.msg]

json.dump({"outcomes": outcomes, "banned": banned}, sys.stdout)
