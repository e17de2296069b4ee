// The language of a page: Chinese where the browser prefers it to English, and a button that switches.
"use strict";

// `chinese` has the Chinese of every text of the page. Texts, titles and labels in `root` that it knows are kept in the
// language that is chosen, and so is what `keep` is given. `learn` adds the texts of another part of the page.
function makeLanguage(chinese, root, button) {
  const CHOICE = "snakes-3v3-language", kept = [];
  const preferred = navigator.languages.find((each) => /^(zh|en)\b/i.test(each)) || "en";
  let isChinese = (remembered() || preferred).startsWith("zh");

  // A page may be refused to remember anything.
  function remembered() { try { return localStorage.getItem(CHOICE); } catch { return null; } }
  function remember(choice) { try { localStorage.setItem(CHOICE, choice); } catch { /* until it is closed, then */ } }

  // A text in the language of the page; {name} stands for a value.
  function say(english, values = {}) {
    const text = isChinese && english in chinese ? chinese[english] : english;
    return text.replace(/\{(\w+)\}/g, (_, name) => values[name]);
  }

  // Do something now and after every switch.
  function keep(show) {
    kept.push(show);
    show();
  }

  function keepMarkup(root) {
    const nodes = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
    while (nodes.nextNode()) {
      const node = nodes.currentNode, whole = node.data, english = whole.trim();
      if (english in chinese) keep(() => { node.data = whole.replace(english, () => say(english)); });
    }
    for (const name of ["title", "aria-label"])
      root.querySelectorAll(`[${name}]`).forEach((element) => {
        const english = element.getAttribute(name);
        if (english in chinese) keep(() => element.setAttribute(name, say(english)));
      });
  }

  function choose(toChinese) {
    isChinese = toChinese;
    document.documentElement.lang = isChinese ? "zh-CN" : "en";
    [button.textContent, button.lang] = isChinese ? ["English", "en"] : ["中文", "zh-CN"];
    kept.forEach((show) => show());
  }

  function learn(more, itsRoot) {
    Object.assign(chinese, more);
    keepMarkup(itsRoot);
  }

  keepMarkup(root);
  choose(isChinese);
  button.addEventListener("click", () => { choose(!isChinese); remember(isChinese ? "zh" : "en"); });
  return { say, keep, learn };
}
