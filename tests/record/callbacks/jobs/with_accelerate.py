"""An Accelerate job for two processes: `with_accelerate.py OUT`."""

import sys

import torch
from accelerate import Accelerator

from stepscope.record.callbacks.accelerate import StepScopeSteps

accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
assert accelerator.num_processes == 2
model = torch.nn.Linear(8, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = torch.utils.data.DataLoader(torch.randn(48, 8), batch_size=2)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
with StepScopeSteps(accelerator, sys.argv[1], steps=2, phases=True, name="two", model=model) as recording:
    for batch in recording.steps(loader):
        with accelerator.accumulate(model):
            accelerator.backward(model(batch).square().mean())
            optimizer.step()
            optimizer.zero_grad()
accelerator.end_training()
