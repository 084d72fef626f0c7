// Orders the rows of a table by the column whose heading is clicked, best first; a second click turns the order round.
function readNumber(row, column) {
  return parseFloat(row.cells[column].textContent.replaceAll(",", ""));
}

function compareRows(first, second, column) {
  const [a, b] = [readNumber(first, column), readNumber(second, column)];
  if (isNaN(a) || isNaN(b)) return isNaN(a) - isNaN(b);
  return a - b;
}

function compareNames(first, second) {
  return first.cells[0].textContent.localeCompare(second.cells[0].textContent, "en", { numeric: true });
}

function orderRows(table, rows, column) {
  const heads = [...table.tHead.rows[0].cells];
  const head = heads[column];
  const isFirst = column === 0 || "ascending" in head.dataset ? "ascending" : "descending";
  const isTurned = head.ariaSort === isFirst;
  const direction = isTurned ? { ascending: "descending", descending: "ascending" }[isFirst] : isFirst;
  const sign = direction === "ascending" ? 1 : -1;
  const isEmpty = (row) => column > 0 && isNaN(readNumber(row, column));
  const compare = column ? compareRows : compareNames;
  const ordered = [...rows].sort((a, b) => isEmpty(a) - isEmpty(b) || sign * compare(a, b, column));
  for (const one of heads) one.removeAttribute("aria-sort");
  head.ariaSort = direction;
  table.tBodies[0].append(...ordered);
  for (const row of table.rows)
    [...row.cells].forEach((cell, place) => cell.classList.toggle("key-column", place === column && column > 0));
  table.parentElement.scrollTop = 0;
}

for (const table of document.querySelectorAll("table.sortable")) {
  const rows = [...table.tBodies[0].rows];
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(head.textContent || "model");
    head.replaceChildren(button);
    button.addEventListener("click", () => orderRows(table, rows, column));
  });
}
