// Texts that grow: the chunks of a message, as pieces that are appended to.
//
// A live query that joins the chunks of a text would build the whole text again for every token.
// Here a token is added to the piece it belongs to, and whoever shows that piece is handed the
// token alone.
import type { Chunk } from "./rows.gen"

export type PieceKind = "text" | "thinking" | "call"

/** One run of chunks of a kind. Its text only grows; what must shrink becomes a new piece. */
export class Piece {
  text = ""
  readonly #readers = new Set<(more: string) => void>()

  constructor(
    readonly kind: PieceKind,
    /** The tool, if it is a call. */
    readonly name = "",
  ) {}

  append(more: string): void {
    this.text += more
    for (const reader of this.#readers) reader(more)
  }

  /** Calls `reader` with whatever is appended from now on. */
  follow(reader: (more: string) => void): () => void {
    this.#readers.add(reader)
    return () => this.#readers.delete(reader)
  }
}

interface Growing {
  chunks: Chunk[]
  /** A new array whenever a piece begins, and the same one while a piece grows. */
  pieces: readonly Piece[]
  watchers: Set<() => void>
}

const NOTHING: readonly Piece[] = []

export class Growth {
  readonly #messages = new Map<string, Growing>()

  /** Takes chunks that came and chunks that were withdrawn. */
  change(added: readonly Chunk[], removed: readonly Chunk[] = []): void {
    const withdrawn = new Set(removed.map(({ id }) => id))
    for (const messageId of new Set(removed.map(({ messageId }) => messageId ?? ""))) {
      const growing = this.#of(messageId)
      growing.chunks = growing.chunks.filter(({ id }) => !withdrawn.has(id))
      this.#rebuild(messageId)
    }
    for (const chunk of added) if (chunk.messageId) this.#add(chunk)
  }

  /** Makes these all the chunks there are. Texts that stay the same are not built again. */
  become(chunks: Iterable<Chunk>): void {
    const byMessage = new Map<string, Chunk[]>([...this.#messages.keys()].map((id) => [id, []]))
    for (const chunk of chunks) {
      const id = chunk.messageId
      if (!id) continue
      const known = byMessage.get(id)
      if (known) known.push(chunk)
      else byMessage.set(id, [chunk])
    }
    for (const [messageId, next] of byMessage) {
      const growing = this.#of(messageId)
      next.sort((one, other) => one.index - other.index)
      if (!isSame(growing.chunks, next)) {
        growing.chunks = next
        this.#rebuild(messageId)
      }
      this.#drop(messageId)
    }
  }

  /** The message is whole, and is shown from its own text. */
  forget(messageId: string): void {
    const growing = this.#messages.get(messageId)
    if (!growing) return
    Object.assign(growing, { chunks: [], pieces: NOTHING })
    this.#drop(messageId)
  }

  /** Messages that are held: those with chunks, and those that are watched. */
  get size(): number {
    return this.#messages.size
  }

  /** The pieces of a message as it grows. */
  pieces(messageId: string): readonly Piece[] {
    return this.#messages.get(messageId)?.pieces ?? NOTHING
  }

  /** Calls `watcher` whenever a piece begins or all begins anew. */
  watch(messageId: string, watcher: () => void): () => void {
    const { watchers } = this.#of(messageId)
    watchers.add(watcher)
    return () => {
      watchers.delete(watcher)
      this.#drop(messageId)
    }
  }

  /** Of a message that has nothing to show and is not shown, nothing is kept. */
  #drop(messageId: string): void {
    const growing = this.#messages.get(messageId)
    if (growing && growing.watchers.size + growing.chunks.length === 0) {
      this.#messages.delete(messageId)
    }
  }

  #of(messageId: string): Growing {
    let growing = this.#messages.get(messageId)
    if (!growing) {
      growing = { chunks: [], pieces: NOTHING, watchers: new Set() }
      this.#messages.set(messageId, growing)
    }
    return growing
  }

  #add(chunk: Chunk): void {
    const growing = this.#of(chunk.messageId ?? "")
    const last = growing.chunks.at(-1)
    if (!last || chunk.index > last.index) {
      growing.chunks.push(chunk)
      const begun = extend(growing.pieces, chunk)
      if (begun === growing.pieces) return
      growing.pieces = begun
      growing.watchers.forEach((watcher) => watcher())
    } else if (!growing.chunks.some((other) => other.index === chunk.index)) {
      growing.chunks.push(chunk)
      growing.chunks.sort((one, other) => one.index - other.index)
      this.#rebuild(chunk.messageId ?? "")
    }
  }

  #rebuild(messageId: string): void {
    const growing = this.#of(messageId)
    growing.pieces = growing.chunks.reduce(extend, [...NOTHING])
    growing.watchers.forEach((watcher) => watcher())
  }
}

function isSame(some: readonly Chunk[], others: readonly Chunk[]): boolean {
  return some.length === others.length && some.every(({ id }, n) => id === others[n]?.id)
}

/** Adds a chunk; the same array if its piece was there. */
function extend(pieces: readonly Piece[], { type, content }: Chunk): readonly Piece[] {
  const last = pieces.at(-1)
  switch (type) {
    case "text":
    case "thinking": {
      if (last?.kind === type) {
        last.append(content)
        return pieces
      }
      const piece = new Piece(type)
      piece.append(content)
      return [...pieces, piece]
    }
    case "tool-call-start":
      return [...pieces, new Piece("call", content)]
    case "tool-call-args":
      if (last?.kind === "call") last.append(content)
      return pieces
    default:
      return pieces
  }
}
