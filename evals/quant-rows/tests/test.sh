#!/usr/bin/env bash
export COMMON=${COMMON:-$TESTS/../../common}
exec bash "$COMMON/test.sh"
