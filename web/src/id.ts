const ID_BYTES = 9

/** An id that nobody else draws. */
export function drawId(prefix = ""): string {
  const bytes = crypto.getRandomValues(new Uint8Array(ID_BYTES))
  return prefix + Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("")
}
