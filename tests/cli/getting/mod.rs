//! Getting the program: `install.sh` and the GitHub Action, from releases on loopback; and what pages say of it.

mod action;
mod pages;
mod releases;
mod script;
