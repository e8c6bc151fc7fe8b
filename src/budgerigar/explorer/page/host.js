// The program around a page that is a frame of it: a notebook. Where its theme can be read, the page takes it over.

/** "dark" or "light", as the notebook around this frame is; null: there is none, or it does not say. */
export function hostTheme() {
  try {
    if (window.parent === window) return null;
    const { body, documentElement } = window.parent.document; // of another origin: an error
    const { jpThemeLight, vscodeThemeKind } = body.dataset;
    if (jpThemeLight) return jpThemeLight === "true" ? "light" : "dark"; // JupyterLab, Notebook 7
    if (vscodeThemeKind) return /light/.test(vscodeThemeKind) ? "light" : "dark"; // VS Code
    const colab = documentElement.getAttribute("theme");
    return colab === "dark" || colab === "light" ? colab : null;
  } catch {
    return null;
  }
}

/** Call `listener` when that theme changes. */
export function onHostTheme(listener) {
  if (!hostTheme()) return;
  const { body, documentElement } = window.parent.document;
  const observer = new MutationObserver(listener);
  observer.observe(body, { attributeFilter: ["data-jp-theme-light", "data-vscode-theme-kind"] });
  observer.observe(documentElement, { attributeFilter: ["theme"] });
}
