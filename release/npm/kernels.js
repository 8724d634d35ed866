#!/usr/bin/env node
// Starts the program for this system, and ends as it ends: with its exit code, or by its signal.
"use strict";
const { spawn } = require("node:child_process");
const { existsSync, readdirSync } = require("node:fs");
const { join } = require("node:path");

const programs = join(__dirname, "bin");
const program = join(programs, `${process.platform}-${process.arch}`, "kernels");
if (!existsSync(program)) {
  const there = readdirSync(programs).join(", ");
  console.error(`kernels: this package has no program for ${process.platform}-${process.arch}, only for ${there}`);
  process.exit(1);
}
const child = spawn(program, process.argv.slice(2), { stdio: "inherit" });
const signals = ["SIGINT", "SIGTERM", "SIGHUP"];
// The program decides what a signal means: `kernels ci` writes its report first.
for (const signal of signals) process.on(signal, () => child.kill(signal));
child.on("error", (error) => {
  console.error(`kernels: cannot start ${program}: ${error.message}`);
  process.exit(1);
});
child.on("exit", (code, signal) => {
  for (const name of signals) process.removeAllListeners(name);
  if (signal) process.kill(process.pid, signal);
  else process.exitCode = code;
});
