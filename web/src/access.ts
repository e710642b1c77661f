// Leave to read and to act: a token of the session, asked for when it is first needed, and again
// before it ends.
import { call } from "./http"
import { drawId } from "./id"

interface Grant {
  token: string
  renewAt: number
}

/** A token is not used in its last seconds: it might end on the way. */
const MARGIN_MS = 30_000

export class Access {
  #grant: Promise<Grant> | undefined
  #renewAt = 0

  constructor(
    readonly sessionUrl: string,
    /** Who asks. What is said again must be said by the same one. */
    readonly actorId: string,
  ) {}

  /** What to say in `Authorization`. */
  async header(): Promise<string> {
    return `Bearer ${(await this.#current()).token}`
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
    const answer = await call("POST", `${this.sessionUrl}/token`, { actorId: this.actorId })
    const { token, expiresAt } = answer as Record<string, unknown>
    if (typeof token !== "string") throw new Error("The server gave no token.")
    const left = Math.max(Date.parse(String(expiresAt)) - Date.now(), 0) || 0
    // A clock that is off must not make us ask for every request.
    const renewAt = Date.now() + Math.max(left - MARGIN_MS, left / 2, 1_000)
    return { token, renewAt }
  }
}

const ACTOR_KEY = "headwater.actor"

/** Who this browser is; all its tabs are one. */
export function whoAmI(): string {
  try {
    const known = localStorage.getItem(ACTOR_KEY)
    if (known) return known
    const drawn = drawId("person-")
    localStorage.setItem(ACTOR_KEY, drawn)
    return drawn
  } catch {
    // A browser that keeps nothing is somebody else in each tab.
    return drawId("person-")
  }
}
