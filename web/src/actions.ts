// What a person can do in a session. Each action is one request; what comes of it comes by the
// stream.
import type { Access } from "./access"
import { Refused, call } from "./http"
import { drawId } from "./id"
import { Store } from "./store"

/** A message on its way. It goes once the stream has it. */
export interface Outgoing {
  id: string
  text: string
  /** Why it could not be sent, if it could not. */
  error?: string
}

export type Decision = "retry" | "fail"

export class Actions {
  readonly outbox = new Store<readonly Outgoing[]>([])
  readonly #sessionUrl: string
  readonly #access: Access

  constructor(sessionUrl: string, access: Access) {
    this.#sessionUrl = sessionUrl
    this.#access = access
  }

  /** The stream has these messages: they are on their way no more. */
  arrived(messages: ReadonlyMap<string, unknown>): void {
    const rest = this.outbox.get().filter(({ id }) => !messages.has(id))
    if (rest.length < this.outbox.get().length) this.outbox.set(rest)
  }

  send(text: string): void {
    const outgoing = { id: drawId("m-"), text }
    this.outbox.set([...this.outbox.get(), outgoing])
    void this.#deliver(outgoing)
  }

  /** Sends a message again, under its id: so it is said once even if the first try arrived. */
  retry({ id, text }: Outgoing): void {
    const outgoing = { id, text }
    this.#replace(outgoing)
    void this.#deliver(outgoing)
  }

  /** Gives a message up that could not be sent. */
  discard(id: string): void {
    this.outbox.set(this.outbox.get().filter((other) => other.id !== id))
  }

  async stop(generationId?: string): Promise<void> {
    await this.#post("stop", generationId === undefined ? {} : { generationId })
  }

  async resolve(toolCallId: string, attempt: number, decision: Decision): Promise<void> {
    await this.#post("resolve", { toolCallId, attempt, decision })
  }

  async #deliver(outgoing: Outgoing): Promise<void> {
    try {
      await this.#post("messages", outgoing)
    } catch (error) {
      this.#replace({ ...outgoing, error: sayWhy(error) })
    }
  }

  #replace(outgoing: Outgoing): void {
    const swap = (other: Outgoing) => (other.id === outgoing.id ? outgoing : other)
    this.outbox.set(this.outbox.get().map(swap))
  }

  async #post(action: string, body: object): Promise<void> {
    const url = `${this.#sessionUrl}/${action}`
    const send = async () => call("POST", url, body, { authorization: await this.#access.header() })
    try {
      await send()
    } catch (error) {
      if (!(error instanceof Refused && error.status === 401)) throw error
      this.#access.forget()
      await send()
    }
  }
}

export function sayWhy(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
