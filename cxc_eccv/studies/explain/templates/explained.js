// Shows the failures with a concept. Without it the page shows all of them.
const search = document.getElementById("search");
const concept = document.getElementById("concept");
const part = document.getElementById("part");
const failures = [...document.querySelectorAll("[data-both]")];
const names = new Set([...document.querySelectorAll("#concepts option")].map((one) => one.value));

function find() {
  const wanted = concept.value.trim().toLowerCase();
  const parts = part.value ? [part.value] : ["both", "truth", "retrieved"];
  const fits = (name) => (names.has(wanted) ? name === wanted : name.includes(wanted));
  for (const one of failures) one.hidden = wanted && !parts.some((own) => one.dataset[own].split(";").some(fits));
  for (const group of document.querySelectorAll(".group-of")) group.hidden = !group.querySelector("[data-both]:not([hidden])");
  for (const list of document.querySelectorAll(".listed")) list.open = Boolean(wanted);
  const shown = failures.filter((one) => one.getClientRects().length).length;
  document.getElementById("found").value = wanted ? `${shown} of ${failures.length} failures on this page` : "";
}

search.hidden = false;
search.addEventListener("input", find);
for (const one of document.querySelectorAll(".filter [type=radio]")) one.addEventListener("change", find);
