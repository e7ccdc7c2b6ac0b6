// @ts-check
// Runs before the first paint: the theme that was chosen here before, if any.
try {
  const chosen = localStorage.getItem("penstock-theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
} catch {
  // Storage is blocked: the system's theme is used.
}
