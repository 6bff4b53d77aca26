// Runs before anything is painted, so that a chosen scheme does not flash in the other one.
try {
  const chosen = localStorage.getItem("rekindle.theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
} catch {
  // A browser that keeps nothing follows the system.
}
