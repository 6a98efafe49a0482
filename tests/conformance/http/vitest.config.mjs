// The suite is a file inside a package: vitest must be told to treat it as source.
export default {
  test: { server: { deps: { inline: [/@durable-streams/] } }, testTimeout: 60000, include: ["conformance.test.mjs"] },
}
