//! A model that answers at once, over HTTP, in the words of Ollama: so that what a real
//! `headwater dev` takes is its own time.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    thread,
};

use anyhow::{Context as _, Result};

const ANSWER: &str = concat!(
    r#"{"model":"bench","message":{"role":"assistant","content":"Well."},"done":false}"#,
    "\n",
    r#"{"model":"bench","message":{"role":"assistant","content":""},"#,
    r#""done":true,"done_reason":"stop","prompt_eval_count":1,"eval_count":1}"#,
    "\n",
);

/// Listens until the program ends.
pub(super) fn start() -> Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("listen as a model")?;
    let address = listener.local_addr()?;
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // A connection that breaks is seen by whom it answers.
            thread::spawn(move || answer_all(stream));
        }
    });
    Ok(address)
}

fn answer_all(stream: TcpStream) -> Result<()> {
    stream.set_nodelay(true)?;
    let mut writer = stream.try_clone()?;
    let mut reader = BufReader::new(stream);
    while let Some(bytes) = read_head(&mut reader)? {
        std::io::copy(&mut reader.by_ref().take(bytes), &mut std::io::sink())?;
        let length = ANSWER.len();
        let head = "HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\n";
        writer.write_all(format!("{head}Content-Length: {length}\r\n\r\n{ANSWER}").as_bytes())?;
    }
    Ok(())
}

/// The length of the body that follows; none if no further request comes.
fn read_head(reader: &mut BufReader<TcpStream>) -> Result<Option<u64>> {
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let line = line.trim().to_ascii_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse()?;
        }
        if line.is_empty() {
            return Ok(Some(length));
        }
    }
}
