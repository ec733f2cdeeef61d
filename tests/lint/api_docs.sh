#!/bin/sh
# docs/api.md says what the .proto files and the table of roles say.
exec python3 "$(dirname "$0")/generated_docs.py" api --check
