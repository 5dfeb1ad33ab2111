// Conversations are kept in IndexedDB, one record each: {id, title, created, updated, version, forgotten, messages}. A tab that saves
// tells the version that it has read; if another tab has saved since, the conversation is kept twice and nothing is lost.
const DATABASE = "weft", TABLE = "chats";
let database = null;
const others = "BroadcastChannel" in window ? new BroadcastChannel("weft") : null;

function asked(request) {
  return new Promise((done, failed) => {
    request.onsuccess = () => done(request.result);
    request.onerror = () => failed(request.error);
  });
}
async function openStore() {
  const opening = indexedDB.open(DATABASE, 1);
  opening.onupgradeneeded = () => opening.result.createObjectStore(TABLE, { keyPath: "id" });
  database = await asked(opening);
  await adoptOldChats();
}
function newId() { return Date.now().toString(36) + "-" + [...crypto.getRandomValues(new Uint8Array(8))].map((b) => b.toString(16).padStart(2, "0")).join(""); }
function newChat() { return { id: newId(), title: "New chat", created: Date.now(), updated: Date.now(), version: 0, forgotten: 0, messages: [] }; }

// Conversations of the page before IndexedDB.
async function adoptOldChats() {
  let old = null;
  try { old = JSON.parse(localStorage.getItem("weft.chats")); } catch { /* nothing that can be read */ }
  if (!Array.isArray(old)) return;
  for (const chat of old) if (Array.isArray(chat?.messages)) await saveChat(tidyChat({ ...chat, id: newId() }));
  localStorage.removeItem("weft.chats");
}
// A record with all of its fields and no others, from a file or an older page.
function tidyChat(chat) {
  const text = (value, fallback) => (typeof value === "string" ? value : fallback), time = (value) => (Number.isFinite(value) ? value : Date.now());
  const messages = chat.messages.filter((m) => ["user", "assistant"].includes(m?.role) && typeof m.content === "string" && !m.failed).map((m) => ({
    role: m.role, content: m.content, ...(typeof m.thinking === "string" && { thinking: m.thinking }), ...(typeof m.cut === "string" && { cut: m.cut }),
    ...(Array.isArray(m.pictures) && { pictures: m.pictures.filter((p) => typeof p === "string" && /^data:image\/(png|jpeg);base64,/.test(p)) }),
    ...(Array.isArray(m.calls) && { calls: m.calls.map((c) => ({ name: text(c?.name, ""), arguments: text(c?.arguments, "") })) }),
  }));
  return { id: text(chat.id, newId()), title: text(chat.title, "Chat").slice(0, 200), created: time(chat.created), updated: time(chat.updated), version: 0, forgotten: 0, messages };
}
// Saves, and returns true; or, after another tab has saved the same conversation, saves under a new id and returns false.
async function saveChat(chat) {
  const table = database.transaction(TABLE, "readwrite").objectStore(TABLE);
  const stored = await asked(table.get(chat.id));
  const mine = !stored || stored.version === chat.version;
  if (!mine) Object.assign(chat, { id: newId(), title: chat.title + " (this tab)", version: 0 });
  chat.version += 1;
  await asked(table.put(structuredClone(chat)));
  others?.postMessage({ saved: chat.id });
  return mine;
}
async function readChats() {
  return (await asked(database.transaction(TABLE).objectStore(TABLE).getAll())).sort((a, b) => b.updated - a.updated);
}
async function readChat(id) { return asked(database.transaction(TABLE).objectStore(TABLE).get(id)); }
async function removeChat(id) {
  await asked(database.transaction(TABLE, "readwrite").objectStore(TABLE).delete(id));
  others?.postMessage({ saved: id });
}

// Settings and the theme.
function stored(name, fallback) {
  try { return JSON.parse(localStorage.getItem("weft." + name)) ?? fallback; } catch { return fallback; }
}
function store(name, value) {
  try { localStorage.setItem("weft." + name, JSON.stringify(value)); } catch { toast("The browser cannot keep this."); }
}
