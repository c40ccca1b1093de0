"use strict";
// A button on each block of code that copies it: of a session with prompts, the input alone.
function codeOf(block) {
  const lines = block.textContent.replace(/\n$/, "").split("\n");
  if (!lines.some((line) => line.startsWith(">>> "))) return lines.join("\n");
  return lines.filter((line) => /^(>>>|\.\.\.)( |$)/.test(line)).map((line) => line.slice(4)).join("\n");
}

document.addEventListener("DOMContentLoaded", () => {
  if (!navigator.clipboard) return; // of a page that came without https
  document.querySelectorAll("div.highlight").forEach((block) => {
    const button = Object.assign(document.createElement("button"),
      { type: "button", className: "copy", textContent: "Copy" });
    button.setAttribute("aria-label", "Copy the code");
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(codeOf(block.querySelector("pre")));
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = "Copy"; }, 1500);
    });
    block.append(button);
  });
});
