const $ = (id) => document.getElementById(id);
const SETTINGS = ["system", ...NUMBERS, "head", "logprobs", "schema", "tools"];
const CUTS = { length: "Cut at the longest answer that Settings allow.", context: "Cut: the context is full.", stopped: "Stopped.", gone: "Cut: the connection broke off." };
let chats = [], current = newChat(), running = null;  // running: the AbortController of the present answer
let pictures = [];  // data: URLs that go with the next message
const tokensOf = new WeakMap();  // probabilities by message; the browser does not keep them

function element(name, text, className) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}
function button(text, act, className = "quiet") {
  const made = element("button", text, className);
  made.type = "button";
  made.addEventListener("click", act);
  return made;
}
let toastTimer = 0;
function toast(text, act, word) {
  $("toast-text").textContent = text;
  $("toast-act").hidden = !act;
  $("toast-act").textContent = word ?? "";
  $("toast-act").onclick = () => { $("toast").hidden = true; act?.(); };
  $("toast").hidden = false;
  clearTimeout(toastTimer);
  toastTimer = setTimeout(() => { $("toast").hidden = true; }, act ? 10000 : 4000);
}
function banner(text, word, act) {
  $("banner").hidden = !text;
  $("banner-text").textContent = text;
  $("banner-act").textContent = word ?? "";
  $("banner-act").onclick = act ?? null;
}
async function copyText(text, from) {
  try { await navigator.clipboard.writeText(text); } catch {
    const area = element("textarea", text);
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  from.textContent = "Copied";
  setTimeout(() => { from.textContent = "Copy"; }, 1500);
}

// ---- messages ----
function percent(logprob) { return (100 * Math.exp(logprob)).toPrecision(3) + " %"; }
// The spans of tokens. A character that several tokens write is in the last one's.
function spans(tokens) {
  const decoder = new TextDecoder();
  return tokens.map((token) => {
    const span = element("span", decoder.decode(new Uint8Array(token.bytes ?? []), { stream: true }));
    span.title = token.top_logprobs.map((top) => `${JSON.stringify(top.token)} ${percent(top.logprob)}`).join("\n");
    if (!token.top_logprobs.some((top) => top.token === token.token)) span.title += `\n${JSON.stringify(token.token)} ${percent(token.logprob)}`;
    span.style.setProperty("--sure", Math.round(70 + 30 * Math.exp(token.logprob)) + "%");
    return span;
  });
}
function folded(word, content, className, open) {
  const box = element("details", undefined, className);
  box.open = open;
  box.append(element("summary", word), content);
  return box;
}
function pretty(text) { try { return JSON.stringify(JSON.parse(text), null, 2); } catch { return text; } }
function bodyOf(message, box) {
  const parts = [];
  for (const url of message.pictures ?? []) {
    const image = element("img");
    image.src = url;
    image.alt = "Attached picture";
    parts.push(image);
  }
  if (message.role === "user" || message.failed) return box.replaceChildren(...parts, message.content);
  const thinks = message.thinking !== undefined && !message.content && running;
  if (message.thinking) parts.push(folded(thinks ? "Thinking\u2026" : "Thoughts", element("div", message.thinking), "thinking", box.querySelector(".thinking")?.open ?? false));
  if (tokensOf.has(message)) {
    const text = element("p", undefined, "plain");
    text.append(...spans(tokensOf.get(message)));
    parts.push(text);
  } else {
    parts.push(...rendered(message.content));
  }
  for (const made of message.calls ?? []) parts.push(folded("Calls " + made.name, element("pre", pretty(made.arguments)), "call", true));
  box.replaceChildren(...parts);
}
function details(usage) {
  const own = usage.weft ?? {}, lines = [`${usage.prompt_tokens} tokens read, ${usage.completion_tokens} written`];
  if (own.decode_tokens_per_s > 0) lines.push(`${own.decode_tokens_per_s.toFixed(1)} tokens/s`);
  if (usage.prompt_tokens_details?.cached_tokens > 0) lines.push(`${usage.prompt_tokens_details.cached_tokens} tokens of the prompt were kept`);
  if (own.head) lines.push(`vocabulary: ${own.head}, ${Math.round(own.head_rows_per_token)} rows a token`);
  return folded("Details", element("span", lines.join(" \u00b7 ")), "", false);
}
function actionsOf(message, box) {
  const row = element("div", undefined, "actions"), last = current.messages.at(-1) === message;
  row.append(button("Copy", (event) => copyText(message.content, event.target)));
  if (message.role === "user") row.append(button("Edit", () => edit(message, box)));
  if (message.role === "assistant") row.append(button("Regenerate", () => regenerate(message)));
  row.append(button("Delete", () => removeFrom(message)));
  if (message.usage) row.append(details(message.usage));
  const cut = element("div", undefined, "cut");
  if (message.cut) {
    cut.append(CUTS[message.cut] ?? "Cut.", " ");
    if (last && !message.calls) cut.append(button("Continue", () => answer(message), ""));
  }
  return message.cut ? [cut, row] : [row];
}
function show(message) {
  const box = element("article", undefined, `message ${message.role}${message.failed ? " failed" : ""}`), body = element("div", undefined, "body");
  box.setAttribute("aria-label", message.failed ? "Error" : message.role === "user" ? "You" : "Answer");
  bodyOf(message, body);
  box.append(body);
  if (!(running && current.messages.at(-1) === message)) box.append(...actionsOf(message, box));
  $("log").append(box);
  return { box, body };
}
// To the end, whose place is only known after what comes into view was laid out.
function follow(frames = 3) {
  $("log").scrollTop = $("log").scrollHeight;
  if (frames > 0) requestAnimationFrame(() => follow(frames - 1));
}
let shown = null;  // the last message's elements
function draw() {
  $("log").replaceChildren();
  if (current.messages.length === 0) {
    const empty = element("p", "Ask something. Conversations stay in this browser.");
    empty.id = "empty";
    $("log").append(empty);
  }
  shown = null;
  current.messages.forEach((message, i) => {
    if (i > 0 && i === current.forgotten) $("log").append(element("div", "The context is full: what is above is no longer sent.", "note"));
    shown = show(message);
  });
  const usage = current.messages.findLast((m) => m.usage)?.usage;
  const used = usage ? usage.prompt_tokens + usage.completion_tokens : 0;
  $("meter").hidden = !server.context || !used;
  $("meter-bar").style.width = Math.min(100, 100 * used / (server.context || 1)) + "%";
  $("meter-text").textContent = `${used} of ${server.context}`;
  document.title = current.messages.length ? current.title + " \u2013 Weft" : "Weft";
}
async function keep(chat = current) {
  chat.updated = Date.now();
  try {
    if (!(await saveChat(chat))) toast("Another tab has changed this conversation: both are kept.");
  } catch { toast("The browser cannot keep this conversation."); }
  await list();
}

// ---- asking ----
function busy(on) {
  $("send").hidden = on;
  $("stop").hidden = !on;
  $("log").setAttribute("aria-busy", String(on));
}
// An answer to the conversation; or more of `begun`, its last message.
async function answer(begun) {
  if (running) return;
  const message = begun ?? { role: "assistant", content: "", usage: null };
  if (!begun) current.messages.push(message);
  running = new AbortController();
  $("toast").hidden = true;  // an undo would move the messages
  busy(true);
  const chat = current;
  draw();
  follow();
  let problem = null, timer = 0, spent = 0;
  const paint = () => {
    timer = 0;
    const begun_at = performance.now(), atEnd = $("log").scrollHeight - $("log").scrollTop - $("log").clientHeight < 80;
    bodyOf(message, shown.body);
    if (atEnd) follow();
    spent = performance.now() - begun_at;
  };
  try {
    await stream(chat, message, Boolean(begun), running.signal, () => { timer ||= setTimeout(paint, Math.max(40, 5 * spent)); });
  } catch (error) {
    if (error.name === "AbortError") message.cut = "stopped";
    else problem = error;
    if (error.code === "gone" && message.content) message.cut = "gone";
  }
  clearTimeout(timer);
  delete message.raw;
  running = null;
  busy(false);
  if (!message.content && !message.calls && !message.thinking && (problem || message.cut)) chat.messages.splice(chat.messages.indexOf(message), 1);
  if (problem && problem.status !== 401 && problem.code !== "gone" && problem.code !== "loading")
    chat.messages.push({ role: "assistant", failed: true, content: problem.message });
  draw();
  follow();
  announce(problem ? problem.message : message.cut === "stopped" ? "Stopped." : "The answer is complete.");
  await keep();
  if (problem) recover(problem, chat);
  else $("input").focus();
}
function announce(text) { $("log").setAttribute("data-state", text); if (text !== "The answer is complete.") toast(text); }
// After a failure that passes: what helps.
function recover(problem, chat) {
  const again = () => { banner(""); if (current === chat && chat.messages.at(-1)?.role === "user") answer(); };
  if (problem.status === 401) {
    $("settings").hidden = false;
    $("options").setAttribute("aria-expanded", "true");
    $("key").focus();
    banner("This server needs a key: type it into the settings.", "Try again", again);
  } else if (problem.code === "gone" || problem.code === "loading") {
    banner(problem.code === "gone" ? "The server does not answer. What has come so far is kept." : "The model is being loaded.", "Reconnect", () => reconnect(again));
    waitForServer(again);
  }
}
async function reconnect(then) {
  await showModel();
  if (server.ready) then();
  else toast("The server still does not answer.");
}
function waitForServer(then) {
  setTimeout(async () => {
    if ($("banner").hidden) return;
    await showModel();
    if (server.ready) then();
    else waitForServer(then);
  }, 2000);
}
function send() {
  const text = $("input").value.trim();
  if ((!text && !pictures.length) || running) return;
  current.messages = current.messages.filter((m) => !m.failed);
  if (current.messages.length === 0) current.title = text.slice(0, 60) || "Picture";
  current.messages.push({ role: "user", content: text, ...(pictures.length && { pictures }) });
  pictures = [];
  drawPictures();
  $("input").value = "";
  grow();
  banner("");
  answer();
}
// Drops what follows the message, and the message itself; the forgotten ones stay so as far as they are there.
function cutAt(message) {
  current.messages.length = Math.max(0, current.messages.indexOf(message));
  current.forgotten = Math.min(current.forgotten, Math.max(0, current.messages.length - 1));
  if (current.messages[current.forgotten]?.role === "assistant") current.forgotten = 0;
}
function regenerate(message) {
  if (running) return;
  cutAt(message);
  answer();
}
function edit(message, box) {
  if (running) return;
  const area = element("textarea", message.content, "editor"), row = element("div", undefined, "row");
  area.setAttribute("aria-label", "Message");
  row.append(button("Send", () => {
    const text = area.value.trim();
    if (!text || running) return;
    cutAt(message);
    current.messages.push({ ...message, content: text });
    answer();
  }, "primary"), button("Cancel", draw));
  box.replaceChildren(area, row);
  area.focus();
}
async function removeFrom(message) {
  if (running) return;
  const chat = current, at = chat.messages.indexOf(message), forgotten = at < chat.forgotten;
  const removed = chat.messages.splice(at, message.role === "user" && chat.messages[at + 1]?.role === "assistant" ? 2 : 1);
  if (forgotten) chat.forgotten = Math.max(0, chat.forgotten - removed.length);
  draw();
  await keep();
  toast("Deleted.", async () => {
    const target = chat.id === current.id ? current : chat;  // it may have been read anew
    target.messages.splice(at, 0, ...removed);
    if (forgotten) target.forgotten += removed.length;
    if (current === target) draw();
    await keep(target);
  }, "Undo");
}

// ---- conversations ----
function group(time) {
  const days = Math.floor((new Date().setHours(0, 0, 0, 0) - new Date(time).setHours(0, 0, 0, 0)) / 864e5 + 0.5);
  return days <= 0 ? "Today" : days === 1 ? "Yesterday" : days <= 7 ? "Last seven days" : days <= 31 ? "Last month" : "Older";
}
async function list() {
  try { chats = await readChats(); } catch { chats = []; }
  const words = $("search").value.trim().toLowerCase();
  const found = chats.filter((chat) => !words || [chat.title, ...chat.messages.map((m) => m.content)].some((text) => text.toLowerCase().includes(words)));
  const parts = [];
  let under = "", items = null;
  for (const chat of found) {
    if (group(chat.updated) !== under) {
      under = group(chat.updated);
      items = element("ul");
      parts.push(element("h2", under), items);
    }
    const item = element("li", undefined, chat.id === current.id ? "current" : "");
    const open = button(chat.title, () => choose(chat), "quiet open"), rename = button("\u270e", () => renameIn(item, chat)), remove = button("\u00d7", () => forget(chat));
    if (chat.id === current.id) open.setAttribute("aria-current", "true");
    rename.setAttribute("aria-label", "Rename " + chat.title);
    remove.setAttribute("aria-label", "Delete " + chat.title);
    item.append(open, rename, remove);
    items.append(item);
  }
  if (!found.length) parts.push(element("p", words ? "Nothing found." : "No conversations yet.", "note"));
  $("list").replaceChildren(...parts);
}
function renameIn(item, chat) {
  const input = element("input");
  input.value = chat.title;
  input.setAttribute("aria-label", "Title");
  let done = false;
  const end = async (save) => {
    if (done) return;
    done = true;
    const title = input.value.trim();
    if (save && title) {
      const target = chat.id === current.id ? current : chat;
      target.title = title.slice(0, 200);
      await saveChat(target);
      draw();
    }
    await list();
  };
  input.addEventListener("keydown", (event) => { if (event.key === "Enter" || event.key === "Escape") { event.stopPropagation(); end(event.key === "Enter"); } });
  input.addEventListener("blur", () => end(true));
  item.replaceChildren(input);
  input.select();
}
function choose(chat) {
  if (running) return;
  current = chat;
  menu(false);
  banner("");
  draw();
  follow();
  list();
  $("input").focus();
}
async function forget(chat) {
  if (running) return;
  await removeChat(chat.id);
  if (current.id === chat.id) current = newChat();
  draw();
  await list();
  toast("Deleted " + chat.title, async () => { chat.version = 0; await saveChat(chat); choose(chat); }, "Undo");
}
function menu(open) {
  $("chats").classList.toggle("open", open);
  $("menu").setAttribute("aria-expanded", String(open));
}
function exportChats() {
  const link = element("a");
  link.href = URL.createObjectURL(new Blob([JSON.stringify({ weft: 1, chats }, null, 1)], { type: "application/json" }));
  link.download = `weft-chats-${new Date().toISOString().slice(0, 10)}.json`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
async function importChats(file) {
  try {
    const read = JSON.parse(await file.text());
    if (!Array.isArray(read.chats)) throw new Error("none");
    const known = new Map(chats.map((chat) => [chat.id, chat]));
    let count = 0;
    for (const one of read.chats) {
      const chat = tidyChat(one), same = known.get(chat.id);
      if (same && JSON.stringify(tidyChat(same).messages) === JSON.stringify(chat.messages)) continue;
      if (same) chat.id = newId();
      await saveChat(chat);
      ++count;
    }
    await list();
    toast(`${count} conversation${count === 1 ? "" : "s"} imported.`);
  } catch { toast("This file has no conversations of Weft."); }
}

// ---- pictures ----
const LARGEST_PICTURE = 1024;  // pixels of a side; larger ones are made smaller
async function addPictures(files) {
  for (const file of files) {
    if (!file.type.startsWith("image/")) continue;
    try {
      const image = await createImageBitmap(file), scale = Math.min(1, LARGEST_PICTURE / Math.max(image.width, image.height));
      const canvas = element("canvas");
      canvas.width = Math.max(1, Math.round(image.width * scale));
      canvas.height = Math.max(1, Math.round(image.height * scale));
      canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
      pictures.push(canvas.toDataURL("image/png").length < 1e6 ? canvas.toDataURL("image/png") : canvas.toDataURL("image/jpeg", 0.9));
    } catch { toast(`${file.name} is no picture that the browser can read.`); }
  }
  drawPictures();
}
function drawPictures() {
  $("pictures").replaceChildren(...pictures.map((url, i) => {
    const box = element("span"), image = element("img"), remove = button("\u00d7", () => { pictures.splice(i, 1); drawPictures(); }, "");
    image.src = url;
    image.alt = "Picture to be sent";
    remove.setAttribute("aria-label", "Remove the picture");
    box.append(image, remove);
    return box;
  }));
}

// ---- speech ----
const HEARD_RATE = 16000;  // samples a second
let recorder = null;       // while somebody speaks
// A WAV file of a recording that the browser made.
async function wavOf(recording) {
  const sound = await new OfflineAudioContext(1, 1, HEARD_RATE).decodeAudioData(await recording.arrayBuffer()), samples = sound.getChannelData(0);
  const data = new DataView(new ArrayBuffer(44 + 2 * samples.length));
  const put = (at, text) => [...text].forEach((letter, i) => data.setUint8(at + i, letter.charCodeAt(0)));
  for (const [at, text] of [[0, "RIFF"], [8, "WAVEfmt "], [36, "data"]]) put(at, text);
  for (const [at, value] of [[4, 36 + 2 * samples.length], [16, 16], [24, HEARD_RATE], [28, 2 * HEARD_RATE], [40, 2 * samples.length]]) data.setUint32(at, value, true);
  for (const [at, value] of [[20, 1], [22, 1], [32, 2], [34, 16]]) data.setUint16(at, value, true);
  samples.forEach((sample, i) => data.setInt16(44 + 2 * i, Math.max(-1, Math.min(1, sample)) * 32767, true));
  return new Blob([data], { type: "audio/wav" });
}
// The text comes into the field, to be read before it is sent.
async function transcribe(recording) {
  const form = new FormData();
  form.append("model", server.ear);
  form.append("file", await wavOf(recording), "speech.wav");
  const { text } = await (await call("v1/audio/transcriptions", form)).json();
  if (!text) return toast("Nothing was understood.");
  $("input").value = [$("input").value.trim(), text].filter(Boolean).join(" ");
  grow();
  $("input").focus();
}
async function speak() {
  if (recorder) return recorder.stop();
  const parts = [];
  let sound;
  $("speak").disabled = true; // a second click would open a second microphone
  try {
    sound = await navigator.mediaDevices.getUserMedia({ audio: true });
    recorder = new MediaRecorder(sound);
  } catch {
    for (const track of sound?.getTracks() ?? []) track.stop();
    return toast("The browser gives no microphone.");
  } finally { $("speak").disabled = false; }
  recorder.addEventListener("dataavailable", (event) => parts.push(event.data));
  recorder.addEventListener("stop", async () => {
    for (const track of sound.getTracks()) track.stop();
    recorder = null;
    $("speak").setAttribute("aria-pressed", "false");
    $("speak").disabled = true;
    try { await transcribe(new Blob(parts)); } catch (error) { toast(error instanceof ServerError ? error.message : "The browser cannot read what it recorded."); }
    $("speak").disabled = false;
  });
  recorder.start();
  $("speak").setAttribute("aria-pressed", "true");
}

// ---- the page ----
function grow() {
  if (CSS.supports("field-sizing", "content")) return;
  $("input").style.height = "auto";
  $("input").style.height = $("input").scrollHeight + 2 + "px";
}
async function showModel() {
  try {
    const [model, ...others] = (await (await call("v1/models")).json()).data;
    server = { ready: true, context: model.context ?? 0, ear: others.find((other) => other.hears)?.id };
    $("speak").hidden = !server.ear || !navigator.mediaDevices;
    $("model").textContent = model.id;
    draw();
  } catch (error) {
    server = { ...server, ready: false };
    $("model").textContent = "";
    if ($("banner").hidden) recover(error, null);
  }
}
function theme(value) {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = value === "system" ? (dark ? "dark" : "light") : value;
  $("theme").value = value;
}
async function start() {
  theme(stored("theme", "system"));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => theme(stored("theme", "system")));
  const settings = stored("settings", {});
  for (const name of SETTINGS) {
    if (typeof settings[name] === "string") $(name).value = settings[name];
    $(name).addEventListener("change", () => store("settings", Object.fromEntries(SETTINGS.map((n) => [n, $(n).value]))));
  }
  try { $("key").value = sessionStorage.getItem("weft.key") ?? ""; } catch { /* kept by the field alone */ }
  $("key").addEventListener("change", () => {
    try { sessionStorage.setItem("weft.key", $("key").value); } catch { /* as above */ }
    showModel();
  });
  try { await openStore(); } catch { toast("This browser keeps no conversations."); }
  await list();
  if (chats[0]) current = chats[0];
  draw();
  follow();
  await list();
  $("input").focus();  // before the server may ask for a key
  await showModel();
  follow();
}

$("form").addEventListener("submit", (event) => { event.preventDefault(); send(); });
$("input").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) { event.preventDefault(); send(); }
});
$("input").addEventListener("input", grow);
$("input").addEventListener("paste", (event) => {
  const files = [...event.clipboardData.files].filter((file) => file.type.startsWith("image/"));
  if (!files.length) return;
  event.preventDefault();
  addPictures(files);
});
for (const name of ["dragover", "dragleave", "drop"])
  document.addEventListener(name, (event) => {
    event.preventDefault();
    $("form").classList.toggle("drop", name === "dragover");
    if (name === "drop") addPictures(event.dataTransfer.files);
  });
$("speak").addEventListener("click", speak);
$("attach").addEventListener("click", () => $("attach-file").click());
$("attach-file").addEventListener("change", async () => { await addPictures($("attach-file").files); $("attach-file").value = ""; });
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  menu(false);
  running?.abort();
});
$("stop").addEventListener("click", () => running?.abort());
$("new").addEventListener("click", () => choose(newChat()));
$("menu").addEventListener("click", () => menu(!$("chats").classList.contains("open")));
$("close").addEventListener("click", () => menu(false));
$("search").addEventListener("input", list);
$("export").addEventListener("click", exportChats);
$("import").addEventListener("click", () => $("import-file").click());
$("import-file").addEventListener("change", async () => { if ($("import-file").files[0]) await importChats($("import-file").files[0]); $("import-file").value = ""; });
$("options").addEventListener("click", () => {
  $("settings").hidden = !$("settings").hidden;
  $("options").setAttribute("aria-expanded", String(!$("settings").hidden));
});
$("theme").addEventListener("change", () => { store("theme", $("theme").value); theme($("theme").value); });
others?.addEventListener("message", async (event) => {
  await list();
  if (event.data.saved !== current.id || running) return;
  const other = await readChat(current.id);
  if (other && other.version > current.version) { current = other; draw(); }
});
start();
