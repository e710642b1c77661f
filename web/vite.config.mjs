import { defineConfig } from "vite"

export default defineConfig({
  build: {
    // Everything is a file of its own, so that `default-src 'self'` is all the policy it takes.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    target: "es2023",
    chunkSizeWarningLimit: 700,
    // A library's word to a server that we do not have.
    rolldownOptions: { checks: { moduleLevelDirective: false } },
  },
  server: {
    // `headwater dev` answers what is not the page's.
    proxy: { "/v1": process.env.HEADWATER_URL ?? "http://127.0.0.1:4437" },
  },
  test: {
    include: ["src/**/*.test.ts", "tests/*.test.mjs"],
    // One process, so that ending it ends everything it started.
    pool: "threads",
    // What one browser does would be in the figures of another.
    fileParallelism: false,
    testTimeout: 120_000,
    hookTimeout: 60_000,
  },
})
