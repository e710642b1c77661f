import { defineConfig } from "vitest/config"

export default defineConfig({
  test: {
    include: ["*.test.mjs"],
    // One process, so that ending it ends everything it started.
    pool: "threads",
    testTimeout: 60_000,
    hookTimeout: 30_000,
  },
})
