#!/usr/bin/env bash
# Makes .venv-litellm: LiteLLM's proxy from tests/peers/litellm.lock, for `make e2e-egress` and `make bench`.
# The lock is made anew by:
#   uv pip compile tests/peers/litellm.in --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
#       --no-annotate --output-file tests/peers/litellm.lock
set -euo pipefail
cd "$(dirname "$0")/../.."
lock=tests/peers/litellm.lock
made_from=$(sha256sum <"$lock" | cut -d' ' -f1)
if [ "$(cat .venv-litellm/ready 2>/dev/null)" != "$made_from" ]; then
    echo "making .venv-litellm from $lock: about a minute, 800 MB"
    rm -rf .venv-litellm
    .venv/bin/python -m venv .venv-litellm
    .venv-litellm/bin/python -m pip install --quiet --no-deps --require-hashes -r "$lock"
    echo "$made_from" >.venv-litellm/ready
fi
