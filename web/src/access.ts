// Leave to read: a token of the session, asked for when it is first needed and again before it ends.
import { call } from "./http"

interface Grant {
  token: string
  actorId: string
  renewAt: number
}

/** A token is not used in its last seconds: it might end on the way. */
const MARGIN_MS = 30_000

export class Access {
  #grant: Promise<Grant> | undefined
  #renewAt = 0

  constructor(readonly sessionUrl: string) {}

  /** What to say in `Authorization`. */
  async header(): Promise<string> {
    return `Bearer ${(await this.#current()).token}`
  }

  /** Who the token speaks for. */
  async actorId(): Promise<string> {
    return (await this.#current()).actorId
  }

  /** The token was refused: the next one who asks gets a new one. */
  forget(): void {
    this.#grant = undefined
  }

  #current(): Promise<Grant> {
    if (this.#grant && Date.now() < this.#renewAt) return this.#grant
    // Until the answer is here nobody else needs to ask.
    this.#renewAt = Infinity
    const grant = this.#ask()
    this.#grant = grant
    grant.then(
      ({ renewAt }) => (this.#renewAt = renewAt),
      () => this.forget(),
    )
    return grant
  }

  async #ask(): Promise<Grant> {
    // Opening a session that is open already changes nothing.
    await call("PUT", this.sessionUrl)
    const answer = await call("POST", `${this.sessionUrl}/token`)
    const { token, expiresAt, actorId } = answer as Record<string, unknown>
    if (typeof token !== "string") throw new Error("the server gave no token")
    const end = typeof expiresAt === "number" ? expiresAt * 1_000 : Date.parse(String(expiresAt))
    const left = Math.max(end - Date.now(), 0)
    // A clock that is off must not make us ask for every request.
    const renewAt = Date.now() + Math.max(left - MARGIN_MS, left / 2, 1_000)
    return { token, actorId: String(actorId ?? ""), renewAt }
  }
}
