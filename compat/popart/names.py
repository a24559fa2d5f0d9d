"""Prefixes of the tensors that PopART itself names.

Source: graphcore/popart, willow/include/popart/tensornames.hpp.
"""

from __future__ import annotations

__all__ = [
    "reservedAccl1Prefix",
    "reservedAccl2Prefix",
    "reservedAccl3Prefix",
    "reservedAcclFinalOutPrefix",
    "reservedAcclPrefix",
    "reservedAcclToReducePrefix",
    "reservedAcclToUpdatePrefix",
    "reservedAccumPrefix",
    "reservedAdamUpdaterPrefix",
    "reservedAutomaticLossScalePrefix",
    "reservedDefaultAdamBeta1Prefix",
    "reservedDefaultAdamBeta2Prefix",
    "reservedDefaultAdamEpsPrefix",
    "reservedDefaultDampeningScaleFactor1Prefix",
    "reservedDefaultLearningRatePrefix",
    "reservedDefaultLossScalingPrefix",
    "reservedDefaultMaxWeightNormPrefix",
    "reservedDefaultScaledLearningRate0Prefix",
    "reservedDefaultScaledLearningRate1Prefix",
    "reservedDefaultScaledMomentum1Prefix",
    "reservedDefaultScaledWeightDecay1Prefix",
    "reservedDefaultStepPrefix",
    "reservedDefaultWeightDecayPrefix",
    "reservedDefaultWeightDecayScaleFactor0Prefix",
    "reservedFinalReducedGradPrefix",
    "reservedGradientPrefix",
    "reservedLambR1SqPrefix",
    "reservedLambR2SqPrefix",
    "reservedLossScalingPrefix",
    "reservedRandomSeedPrefix",
    "reservedRemoteArgPrefix",
    "reservedRestoredPrefix",
    "reservedSeedModifierPrefix",
    "reservedSpecificAdamBeta1Prefix",
    "reservedSpecificAdamBeta2Prefix",
    "reservedSpecificAdamEpsPrefix",
    "reservedSpecificDampeningScaleFactor1Prefix",
    "reservedSpecificLearningRatePrefix",
    "reservedSpecificLossScalingPrefix",
    "reservedSpecificMaxWeightNormPrefix",
    "reservedSpecificScaledLearningRate0Prefix",
    "reservedSpecificScaledLearningRate1Prefix",
    "reservedSpecificScaledMomentum1Prefix",
    "reservedSpecificScaledWeightDecay1Prefix",
    "reservedSpecificStepPrefix",
    "reservedSpecificWeightDecayPrefix",
    "reservedSpecificWeightDecayScaleFactor0Prefix",
    "reservedStashedPrefix",
    "reservedStepPrefix",
    "reservedUpdatedVarPrefix",
]


def reservedGradientPrefix() -> str:
    """Return the prefix of a gradient."""
    return "Gradient___"


def reservedUpdatedVarPrefix() -> str:
    """Return the prefix of an updated variable."""
    return "UpdatedVar___"


def reservedAccumPrefix() -> str:
    """Return the prefix of an accumulator of gradients."""
    return "Accum___"


def reservedAcclPrefix() -> str:
    """Return the prefix of an accumulator joined with the velocity."""
    return "Accl___"


def reservedAccl1Prefix() -> str:
    """Return the prefix of the first moment."""
    return "Accl1___"


def reservedAccl2Prefix() -> str:
    """Return the prefix of the second moment."""
    return "Accl2___"


def reservedAccl3Prefix() -> str:
    """Return the prefix of the third state of an adaptive optimizer."""
    return "Accl3___"


def reservedStepPrefix() -> str:
    """Return the prefix of the number of steps of a weight."""
    return "Step___"


def reservedAcclToReducePrefix() -> str:
    """Return the prefix of an accumulator before replicas reduce it."""
    return "AcclIntoReduce___"


def reservedAcclToUpdatePrefix() -> str:
    """Return the prefix of an accumulator before it is updated."""
    return "AcclIntoUpdate___"


def reservedAcclFinalOutPrefix() -> str:
    """Return the prefix of an accumulator after its update."""
    return "AcclOutOfAcclUpdate___"


def reservedFinalReducedGradPrefix() -> str:
    """Return the prefix of a gradient that replicas have reduced."""
    return "FinalReducedGradient___"


def reservedAdamUpdaterPrefix() -> str:
    """Return the prefix of the update that Adam computes."""
    return "AdamUpdater___"


def reservedLambR1SqPrefix() -> str:
    """Return the prefix of the squared norm of a weight."""
    return "LambR1Sq___"


def reservedLambR2SqPrefix() -> str:
    """Return the prefix of the squared norm of an update."""
    return "LambR2Sq___"


def reservedStashedPrefix() -> str:
    """Return the prefix of an activation that waits for a later stage."""
    return "Stashed___"


def reservedRestoredPrefix() -> str:
    """Return the prefix of an activation as a later stage uses it."""
    return "Restored___"


def reservedLossScalingPrefix() -> str:
    """Return the prefix of the scale of the loss."""
    return "lossScaling_"


def reservedRandomSeedPrefix() -> str:
    """Return the prefix of the seed of random numbers."""
    return "randomSeed___"


def reservedSeedModifierPrefix() -> str:
    """Return the prefix of what makes the seed of an operator its own."""
    return "randomSeedModifier___"


def reservedRemoteArgPrefix() -> str:
    """Return the prefix of the place of a tensor in the memory of the host."""
    return "RemoteArg___"


def reservedDefaultWeightDecayScaleFactor0Prefix() -> str:
    """Return the prefix of the default weight decay scale factor0."""
    return "weightDecayScaleFactor0___default___"


def reservedSpecificWeightDecayScaleFactor0Prefix() -> str:
    """Return the prefix of the weight decay scale factor0 of one weight."""
    return "weightDecayScaleFactor0___specific___"


def reservedDefaultScaledLearningRate0Prefix() -> str:
    """Return the prefix of the default scaled learning rate0."""
    return "scaledLearningRate0___default___"


def reservedSpecificScaledLearningRate0Prefix() -> str:
    """Return the prefix of the scaled learning rate0 of one weight."""
    return "scaledLearningRate0___specific___"


def reservedDefaultScaledWeightDecay1Prefix() -> str:
    """Return the prefix of the default scaled weight decay1."""
    return "scaledWeightDecay1___default___"


def reservedSpecificScaledWeightDecay1Prefix() -> str:
    """Return the prefix of the scaled weight decay1 of one weight."""
    return "scaledWeightDecay1___specific___"


def reservedDefaultScaledLearningRate1Prefix() -> str:
    """Return the prefix of the default scaled learning rate1."""
    return "scaledLearningRate1___default___"


def reservedSpecificScaledLearningRate1Prefix() -> str:
    """Return the prefix of the scaled learning rate1 of one weight."""
    return "scaledLearningRate1___specific___"


def reservedDefaultDampeningScaleFactor1Prefix() -> str:
    """Return the prefix of the default dampening scale factor1."""
    return "dampeningScaleFactor1___default___"


def reservedSpecificDampeningScaleFactor1Prefix() -> str:
    """Return the prefix of the dampening scale factor1 of one weight."""
    return "dampeningScaleFactor1___specific___"


def reservedDefaultScaledMomentum1Prefix() -> str:
    """Return the prefix of the default scaled momentum1."""
    return "scaledMomentum1___default___"


def reservedSpecificScaledMomentum1Prefix() -> str:
    """Return the prefix of the scaled momentum1 of one weight."""
    return "scaledMomentum1___specific___"


def reservedDefaultLearningRatePrefix() -> str:
    """Return the prefix of the default learning rate."""
    return "learningRate___default___"


def reservedSpecificLearningRatePrefix() -> str:
    """Return the prefix of the learning rate of one weight."""
    return "learningRate___specific___"


def reservedDefaultWeightDecayPrefix() -> str:
    """Return the prefix of the default weight decay."""
    return "weightDecay___default___"


def reservedSpecificWeightDecayPrefix() -> str:
    """Return the prefix of the weight decay of one weight."""
    return "weightDecay___specific___"


def reservedDefaultLossScalingPrefix() -> str:
    """Return the prefix of the default loss scaling."""
    return "lossScaling___default___"


def reservedSpecificLossScalingPrefix() -> str:
    """Return the prefix of the loss scaling of one weight."""
    return "lossScaling___specific___"


def reservedDefaultMaxWeightNormPrefix() -> str:
    """Return the prefix of the default max weight norm."""
    return "maxWeightNorm___default___"


def reservedSpecificMaxWeightNormPrefix() -> str:
    """Return the prefix of the max weight norm of one weight."""
    return "maxWeightNorm___specific___"


def reservedAutomaticLossScalePrefix() -> str:
    """Return the prefix of a gradient that automatic loss scaling observes."""
    return "AutomaticLossScaleProxy___"


def reservedDefaultAdamBeta1Prefix() -> str:
    """Return the prefix of the default adam beta1."""
    return "adamBeta1___default___"


def reservedSpecificAdamBeta1Prefix() -> str:
    """Return the prefix of the adam beta1 of one weight."""
    return "adamBeta1___specific___"


def reservedDefaultAdamBeta2Prefix() -> str:
    """Return the prefix of the default adam beta2."""
    return "adamBeta2___default___"


def reservedSpecificAdamBeta2Prefix() -> str:
    """Return the prefix of the adam beta2 of one weight."""
    return "adamBeta2___specific___"


def reservedDefaultAdamEpsPrefix() -> str:
    """Return the prefix of the default adam eps."""
    return "adamEps___default___"


def reservedSpecificAdamEpsPrefix() -> str:
    """Return the prefix of the adam eps of one weight."""
    return "adamEps___specific___"


def reservedDefaultStepPrefix() -> str:
    """Return the prefix of the default step."""
    return "step___default___"


def reservedSpecificStepPrefix() -> str:
    """Return the prefix of the step of one weight."""
    return "step___specific___"
