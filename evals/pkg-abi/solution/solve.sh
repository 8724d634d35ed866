#!/usr/bin/env bash
here=$(dirname "$0")
cp -R "$here/build.toml" "$here/torch-ext" .
rm setup.py
