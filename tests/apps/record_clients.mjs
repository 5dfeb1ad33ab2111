// The clients of npm for record_clients.py: node record_clients.mjs NAME URL
import { createRequire } from "node:module";
import path from "node:path";
import { pathToFileURL } from "node:url";

const require = createRequire(path.join(process.env.NODE_PATH ?? ".", "x.js"));
const load = (name) => import(pathToFileURL(require.resolve(name)).href);
const [name, url] = process.argv.slice(2);

async function ai_sdk() {
  const { generateText, streamText, tool, stepCountIs } = await load("ai");
  const { createOpenAI } = await load("@ai-sdk/openai");
  const { z } = await load("zod");
  const add = tool({ description: "Adds.", inputSchema: z.object({ a: z.number(), b: z.number().int() }), execute: async ({ a, b }) => a + b });
  const openai = createOpenAI({ baseURL: url, apiKey: "x" });
  // A server that stores nothing cannot follow references to its items.
  const providerOptions = { openai: { store: false } };
  for (const model of [openai.chat("m"), openai.responses("m")]) {
    await generateText({ model, providerOptions, system: "Be brief.", prompt: "1 + 2?", tools: { add }, stopWhen: stepCountIs(3), maxRetries: 0 });
    const { textStream } = streamText({ model, providerOptions, prompt: "1 + 2?", tools: { add }, toolChoice: "auto", stopWhen: stepCountIs(3), maxRetries: 0 });
    for await (const _ of textStream);
  }
}

async function openai_node() {
  const { default: OpenAI } = await load("openai");
  const client = new OpenAI({ baseURL: url, apiKey: "x", maxRetries: 0 });
  const parameters = { type: "object", properties: { a: { type: "number" }, b: { type: "number" } } };
  const runner = client.chat.completions.runTools({ model: "m", messages: [{ role: "user", content: "1 + 2?" }],
    tools: [{ type: "function", function: { name: "add", description: "Adds.", parameters, parse: JSON.parse, function: ({ a, b }) => a + b } }] });
  await runner.finalContent();
}

await { ai_sdk, openai_node }[name]();
