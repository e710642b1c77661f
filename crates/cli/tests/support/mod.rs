//! What tests of the program share: the program itself, a server it runs, and a client.

#![allow(dead_code, unused_imports, reason = "each test target uses its own part of this")]

mod http;
mod program;
mod receiver;
mod server;

pub(crate) use http::{Answer, Asking, Client, Died};
pub(crate) use program::{Output, Program};
pub(crate) use receiver::{Hook, Receiver};
pub(crate) use server::{Launch, Server};
