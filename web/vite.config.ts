import { defineConfig } from "vitest/config";

// One script and one stylesheet, which Python pastes into the page; nothing is loaded later.
export default defineConfig({
  build: {
    lib: {
      entry: "src/main.tsx",
      formats: ["iife"],
      name: "stepscope",
      fileName: () => "page.js",
      cssFileName: "page",
    },
    outDir: "../src/stepscope/report/web",
    emptyOutDir: true,
    target: "es2022",
    minify: true,
    reportCompressedSize: false,
  },
  define: { "process.env.NODE_ENV": '"production"' },
  test: { environment: "node", include: ["src/**/*.test.ts"], isolate: false }, // all are of functions without state
});
