// Nested tables open and close.
(function () {
  'use strict';
  // Nested tables: closing a row hides the rows whose keys start with its own.
  document.addEventListener('click', (event) => {
    const button = /** @type {Element} */ (event.target).closest('button.disclosure');
    if (!button) return;
    const row = button.closest('tr');
    const isOpen = button.getAttribute('aria-expanded') === 'true';
    button.setAttribute('aria-expanded', String(!isOpen));
    button.textContent = isOpen ? '▸' : '▾';
    const rows = [...row.closest('tbody').rows];
    const closed = rows
      .filter((parent) => parent.querySelector('button.disclosure[aria-expanded="false"]'))
      .map((parent) => parent.dataset.key + '/');
    for (const child of rows) child.hidden = closed.some((key) => child.dataset.key.startsWith(key));
  });
})();
