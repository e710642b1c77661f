//! Serves streams in memory, for trying clients and running conformance suites.
//!
//! ```text
//! cargo run -p headwater-server --example serve_memory -- --listen 127.0.0.1:4437
//! ```

use std::{net::SocketAddr, sync::Arc, time::Duration};

use log::MemoryLog;
use server::{Server, Settings};
use sys::Sys;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let settings = Settings {
        listen: listen()?,
        // Suites wait for many empty answers; a person would not mind 20 s.
        long_poll_timeout: Duration::from_millis(500),
        ..Settings::default()
    };
    let sys = Sys::real();
    let log = Arc::new(MemoryLog::new(&sys));
    let server = Server::bind(log, sys, settings).await?;
    server.run(std::future::pending()).await;
    Ok(())
}

/// The address after `--listen`.
fn listen() -> Result<SocketAddr, Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip_while(|argument| argument != "--listen").skip(1);
    Ok(arguments.next().as_deref().unwrap_or("127.0.0.1:4437").parse()?)
}
