//! Health, readiness, metrics.

use crate::support::{Harness, Request};

#[tokio::test]
async fn a_server_tells_how_it_is() {
    let server = Harness::start().await;
    assert_eq!(server.get("/healthz").await.expect(200).text(), "ok\n");
    assert_eq!(server.get("/readyz").await.expect(200).text(), "ready\n");
    let answer = server.ask(Request::new("POST", "/healthz")).await.expect(405);
    assert_eq!(answer.header("allow"), Some("GET, HEAD, OPTIONS"));
}

#[tokio::test]
async fn metrics_count_what_happened() {
    let server = Harness::start().await;
    server.create("/v1/stream/a", "text/plain").await;
    server.append("/v1/stream/a", "text/plain", "hello").await.expect(204);
    server.get("/v1/stream/a").await.expect(200);
    server.get("/v1/stream/b").await.expect(404);
    let mut live = server.connect().await;
    live.send(Request::new("GET", "/v1/stream/a?offset=now&live=sse").to_string()).await;
    live.until("upToDate").await;
    let text = server.get("/metrics").await.expect(200).text();
    for line in [
        "headwater_http_requests_total{method=\"GET\",status=\"2xx\"} 2",
        "headwater_http_requests_total{method=\"GET\",status=\"4xx\"} 1",
        "headwater_http_requests_total{method=\"POST\",status=\"2xx\"} 1",
        "headwater_http_received_bytes_total 5",
        "headwater_http_live_readers 1",
        "headwater_http_connections 2",
        "headwater_http_shed_total 0",
        "headwater_http_request_duration_seconds_count 5",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} not in\n{text}");
    }
}
