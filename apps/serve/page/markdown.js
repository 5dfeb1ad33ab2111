// What a model says is hostile: Markdown becomes a tree of harmless elements. HTML in it is shown as text, pictures and links to
// other schemes than http, https and mailto lose their target, and DOMPurify has the last word.
const LONGEST_MARKDOWN = 200000, LONGEST_CODE = 50000, LONGEST_FORMULA = 5000;  // characters; longer ones are shown as text

function escaped(text) {
  return text.replace(/[&<>"']/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" })[c]);
}
function formula(text, display) {
  if (text.length > LONGEST_FORMULA) return escaped(text);
  try {
    const html = katex.renderToString(text, { displayMode: display, output: "mathml", trust: false, maxExpand: 200, maxSize: 20 });
    return html.replace(/<annotation[^>]*>[^<]*<\/annotation>/g, "");
  } catch { return "<code>" + escaped(text) + "</code>"; }
}
// TeX between $ and $, $$ and $$, \( and \), \[ and \]. A single $ must touch the formula, so that prices stay prices.
const FORMULAS = [[/^\$\$([^$]+?)\$\$/, true], [/^\\\[([^]+?)\\\]/, true], [/^\\\(([^]+?)\\\)/, false], [/^\$(?![\s$])([^$\n]*?[^\s$\\])\$(?!\d)/, false]];
const mathExtension = {
  name: "math", level: "inline",
  start: (source) => { const at = source.search(/\$|\\[([]/); return at < 0 ? undefined : at; },
  tokenizer(source) {
    for (const [pattern, display] of FORMULAS) {
      const found = pattern.exec(source.slice(0, LONGEST_FORMULA));
      if (found) return { type: "math", raw: found[0], text: found[1], display };
    }
  },
  renderer: (token) => formula(token.text, token.display),
};
const markdown = new marked.Marked({
  gfm: true, breaks: false, extensions: [mathExtension],
  renderer: {
    html: (token) => escaped(token.text),
    image: (token) => escaped(token.text || token.href),
    link(token) {
      const text = this.parser.parseInline(token.tokens);
      return /^(https?:|mailto:)/i.test(token.href) ? `<a href="${escaped(token.href)}">${text}</a>` : text;
    },
  },
});
const CLEAN = {
  RETURN_DOM_FRAGMENT: true, USE_PROFILES: { html: true, mathMl: true }, FORBID_ATTR: ["id", "name", "style"],
  FORBID_TAGS: ["style", "form", "input", "button", "textarea", "select", "img", "video", "audio", "picture", "source", "svg"],
  ALLOWED_URI_REGEXP: /^(?:https?:|mailto:)/i, ALLOW_DATA_ATTR: false,
};

function codeBox(pre) {
  const code = pre.querySelector("code") ?? pre, text = code.textContent;
  const language = /language-([\w+#-]+)/.exec(code.className)?.[1] ?? "";
  if (text.length <= LONGEST_CODE && hljs.getLanguage(language))
    code.innerHTML = DOMPurify.sanitize(hljs.highlight(text, { language, ignoreIllegals: true }).value, { ALLOWED_TAGS: ["span"], ALLOWED_ATTR: ["class"] });
  const box = element("div", undefined, "code"), bar = element("div", undefined, "row"), copy = element("button", "Copy", "quiet");
  copy.type = "button";
  copy.addEventListener("click", () => copyText(text, copy));
  bar.append(element("span", language || "text"), copy);
  pre.tabIndex = 0;
  pre.replaceWith(box);
  box.append(bar, pre);
}
// Children for an element of the class "body".
function rendered(text) {
  if (text.length > LONGEST_MARKDOWN) return [element("div", text, "body plain")];
  let clean;
  try { clean = DOMPurify.sanitize(markdown.parse(text), CLEAN); } catch { return [element("div", text, "body plain")]; }
  for (const pre of [...clean.querySelectorAll("pre")]) codeBox(pre);
  for (const table of [...clean.querySelectorAll("table")]) {
    const scroll = element("div", undefined, "scroll");
    scroll.tabIndex = 0;
    table.replaceWith(scroll);
    scroll.append(table);
  }
  for (const link of clean.querySelectorAll("a")) {
    link.target = "_blank";
    link.rel = "noopener noreferrer nofollow";
    link.title = "";
    link.removeAttribute("title");
  }
  return [...clean.childNodes];
}
