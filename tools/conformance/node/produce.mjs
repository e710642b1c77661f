// Appends so many JSON messages of so many bytes through the npm client's idempotent producer, with
// the defaults it comes with, and prints the seconds that took.
import { DurableStream, IdempotentProducer } from "@durable-streams/client"

const [url, count, bytes] = process.argv.slice(2)
const stream = await DurableStream.create({ url, contentType: "application/json" })
const producer = new IdempotentProducer(stream, "bench", {
  onError: (error) => {
    throw error
  },
})
const message = JSON.stringify({ text: "x".repeat(Number(bytes) - 11) })
const began = performance.now()
for (let sent = 0; sent < Number(count); sent++) {
  producer.append(message)
  // Let what is due leave; it does not push back by itself.
  if (sent % 1000 === 999) await new Promise((resolve) => setImmediate(resolve))
}
await producer.flush()
console.log((performance.now() - began) / 1000)
