// Buttons that copy a text: commands that pages show.
(function () {
  'use strict';
  const SHOWN_MS = 2000;

  async function copied(text) {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch (error) {
      return false;
    }
  }

  document.addEventListener('click', async (event) => {
    const target = /** @type {HTMLElement} */ (event.target);
    /** @type {HTMLElement | null} */
    const button = target.closest('[data-copy]');
    if (!button) return;
    const before = button.textContent;
    button.textContent = (await copied(button.dataset.copy)) ? 'Copied' : 'Select the text';
    setTimeout(() => { button.textContent = before; }, SHOWN_MS);
  });
})();
