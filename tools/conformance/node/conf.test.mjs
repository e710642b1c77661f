// The official suite, told by environment variables where the server is and what it offers.
import { runConformanceTests } from "@durable-streams/server-conformance-tests"

runConformanceTests({
  baseUrl: process.env.CONFORMANCE_URL,
  longPollTimeoutMs: Number(process.env.CONFORMANCE_LONG_POLL_MS),
  subscriptions: process.env.CONFORMANCE_SUBSCRIPTIONS === "true",
})
