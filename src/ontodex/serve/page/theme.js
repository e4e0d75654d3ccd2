// Before the first paint, so that a chosen theme does not flash; without a choice the system's.
const chosen = localStorage.getItem("theme");
if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
