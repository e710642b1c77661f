// The server under test: the real binary, with a data folder of its own, that can be killed and
// started again at the same address.
import { spawn } from "node:child_process"
import { once } from "node:events"
import { createWriteStream, mkdirSync, rmSync } from "node:fs"
import { createInterface } from "node:readline"

const READY_MS_MAX = 30_000

export class Server {
  #binary
  #dir
  #log
  #child

  /** `dir` is emptied, and kept afterwards. */
  constructor(binary, dir) {
    rmSync(dir, { recursive: true, force: true })
    mkdirSync(dir, { recursive: true })
    this.#binary = binary
    this.#dir = dir
    this.#log = createWriteStream(`${dir}/server.log`)
    this.url = undefined
  }

  /** Starts it where it was before, or on a free port, and waits until it serves. */
  async start() {
    const listen = this.url ? new URL(this.url).host : "127.0.0.1:0"
    const words = [
      "dev",
      "--listen",
      listen,
      "--data-dir",
      `${this.#dir}/data`,
      "--model",
      "scripted",
    ]
    // No key of whoever runs this may get into a test.
    const env = { PATH: process.env.PATH, HOME: this.#dir, RUST_LOG: "info" }
    this.#child = spawn(this.#binary, words, { env, stdio: ["ignore", "pipe", "pipe"] })
    this.#child.stderr.pipe(this.#log, { end: false })
    this.url = await this.#readUrl()
    await this.#isReady()
  }

  /** Ends it as a power cut would. */
  async kill() {
    if (!this.#child || this.#child.exitCode !== null || this.#child.signalCode) return
    const ended = once(this.#child, "exit")
    this.#child.kill("SIGKILL")
    await ended
  }

  /** Where it says that it is. */
  #readUrl() {
    return new Promise((resolve, reject) => {
      const lines = createInterface({ input: this.#child.stdout })
      lines.on("line", (line) => {
        this.#log.write(`${line}\n`)
        const [url] = /http:\/\/127\.0\.0\.1:\d+/.exec(line) ?? []
        if (url) resolve(url)
      })
      this.#child.once("exit", (code) =>
        reject(new Error(`the server ended with ${code}; see ${this.#dir}/server.log`)),
      )
      this.#child.once("error", reject)
    })
  }

  async #isReady() {
    const deadline = Date.now() + READY_MS_MAX
    while (Date.now() < deadline) {
      const answer = await fetch(`${this.url}/readyz`).catch(() => undefined)
      if (answer?.ok) return
      await new Promise((resolve) => setTimeout(resolve, 20))
    }
    throw new Error(`the server at ${this.url} does not get ready`)
  }
}
