/** Dark or light: what the system prefers, unless the user chose. */

const KEY = "clew.theme";
const ORDER = ["system", "light", "dark"];

/** Return the choice: `system`, `light` or `dark`. */
export const readTheme = () => localStorage.getItem(KEY) ?? "system";

/** Show the page in the chosen colours. */
export function applyTheme(theme = readTheme()) {
  if (theme === "system") document.documentElement.removeAttribute("data-theme");
  else document.documentElement.dataset.theme = theme;
}

/** Choose colours. @param {string} theme */
export function setTheme(theme) {
  if (theme === "system") localStorage.removeItem(KEY);
  else localStorage.setItem(KEY, theme);
  applyTheme(theme);
}

/** Choose the next of the three. */
export function nextTheme() {
  const next = ORDER[(ORDER.indexOf(readTheme()) + 1) % ORDER.length];
  setTheme(next);
  return next;
}
